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
    {{python}} -m pytest -m "not gpu and not process and not clients and not observability and not browser" {{arguments}}

# Run the tests against the real server process, with real clients.
test-process *arguments:
    {{python}} -m pytest -m process {{arguments}}

# Run the tests with a LiteLLM proxy in front of two seats; installs it into the user's cache once.
test-clients *arguments:
    {{python}} -m pytest -m clients {{arguments}}

# Drive the page in a real Chromium; installs it with apt, as root, where there is none.
test-browser *arguments:
    command -v chromium || (apt-get update -qq && apt-get install -qq --yes chromium)
    {{python}} -m pytest -m browser tests/browser {{arguments}}

# Run the tests that need a CUDA card.
test-gpu *arguments:
    {{python}} -m pytest -W default -m gpu tests/gpu {{arguments}}

# Ask a real Prometheus for everything on the dashboard and in the rules; installs it, as root, where it is not there.
test-observability *arguments:
    which prometheus promtool docker-compose > /dev/null || (apt-get update -qq && apt-get install -y -qq --no-install-recommends prometheus docker-compose)
    {{python}} -m pytest -m observability {{arguments}}

# Everything that must pass: format, lint, types, all tests that need no card.
check: lint types
    {{python}} -m pytest

# Start a seat with the bundled model.
serve *arguments:
    {{python}} -m seat serve {{arguments}}

# Measure our request against NeMo's transcribe(), and HTTP against in-process.
bench *arguments:
    {{python}} -m tests.bench.request {{arguments}}

# Measure what tracing costs a request, beside the same request without.
bench-telemetry *arguments:
    {{python}} -m tests.bench.telemetry {{arguments}}

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
