"""Stand in for the command jq with the bindings to the same library, for machines that have none.

python -m tests.jq [-s] [-r] FILTER < lines
"""

from __future__ import annotations

import argparse
import json
import sys

import jq


def main() -> None:
    """Filter what comes in."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("-s", "--slurp", action="store_true")
    arguments.add_argument("-r", "--raw-output", action="store_true")
    arguments.add_argument("filter")
    given = arguments.parse_args()
    values = [json.loads(line) for line in sys.stdin]
    for value in [values] if given.slurp else values:
        for found in jq.compile(given.filter).input_value(value):
            raw = given.raw_output and isinstance(found, str)
            sys.stdout.write((found if raw else json.dumps(found, indent=2)) + "\n")


if __name__ == "__main__":
    main()
