"""python -m seat."""

from seat.cli import main

main()
