"""The mesh on one machine: which processes it has, and how they are started, watched and stopped."""
