"""Publications that die at every system call, and a model of what a power cut leaves."""
