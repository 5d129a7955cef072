"""Client and command line of tiermesh."""
