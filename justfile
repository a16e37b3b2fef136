python := env("SEAT_PYTHON", ".venv/bin/python")

# List the recipes.
default:
    @just --list

# Make .venv and install the seat with everything its tests need.
setup:
    python3 -m venv .venv
    .venv/bin/pip install --quiet --editable . --group dev

# Format the code.
fmt:
    {{python}} -m ruff format .
    {{python}} -m ruff check --fix --quiet .

# Check the format and the lint rules.
lint:
    {{python}} -m ruff format --check .
    {{python}} -m ruff check .

# Check the types.
types:
    {{python}} -m mypy

# Run the tests that start no process of their own.
test *arguments:
    {{python}} -m pytest -m "not gpu and not process" {{arguments}}

# Run the tests against the real server process, with real clients.
test-process *arguments:
    {{python}} -m pytest -m process {{arguments}}

# Run the tests that need a CUDA card.
test-gpu *arguments:
    {{python}} -m pytest -W default -m gpu tests/gpu {{arguments}}

# Everything that must pass: format, lint, types, all tests that need no card.
check: lint types
    {{python}} -m pytest -m "not gpu"

# Start a seat with the bundled model.
serve *arguments:
    {{python}} -m seat serve {{arguments}}

# Measure our request against NeMo's transcribe(), and HTTP against in-process.
bench *arguments:
    {{python}} -m tests.bench.request {{arguments}}

# Compare the ways to join windows on long files: just bench-windows --fsdd FOLDER
bench-windows *arguments:
    {{python}} -m tests.bench.windows {{arguments}}

# Put callers on a seat, and on a plain server beside it; writes load.png.
bench-load *arguments:
    {{python}} -m tests.bench.load {{arguments}}

# Put a seat under load and tell whether its memory grows; writes soak.json and soak.png.
soak *arguments:
    {{python}} -m tests.bench.soak {{arguments}}

# Score the bundled model on speech it never heard: just accuracy --fsdd FOLDER
accuracy *arguments:
    {{python}} -m seat.demo.recipe.accuracy {{arguments}}

# Speak to a seat from many callers, and compare streams with files: just bench-live [--fsdd FOLDER]
bench-live *arguments:
    {{python}} -m tests.bench.live {{arguments}}
