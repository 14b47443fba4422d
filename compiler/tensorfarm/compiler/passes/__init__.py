"""The passes that come with the compiler, one a file. A pipeline names them; a user's pass stands beside them."""
