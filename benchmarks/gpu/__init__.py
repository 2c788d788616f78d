"""What a machine with one GPU measures; every command also runs on a CPU, as a smoke test."""
