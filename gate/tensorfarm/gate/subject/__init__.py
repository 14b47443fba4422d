"""What runs in the subject process: it loads an artifact, calls it and writes down what came out. It judges nothing."""
