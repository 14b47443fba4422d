"""Small programs to compile, each a factory that returns a module and its example inputs."""
