"""The set-up: `python3 env/setup.py`, or `make setup`."""
