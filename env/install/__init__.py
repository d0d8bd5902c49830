"""The parts of the set-up, one for each thing that it looks for or installs; env/sequence.py calls
them."""
