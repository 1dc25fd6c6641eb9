#!/usr/bin/env bash
# Builds the image and runs docker-compose.yml with podman: a corpus job with two remote embedders
# and two neighbor shards and a training run on two ranks, while every service is restarted. Checks
# what Prometheus scrapes. Needs root, podman, podman-compose, iptables and a Debian mirror; port
# 7077 must be free. Runs as `ctest -L containers`, which the test command leaves out.
#
#   tests/containers/run.sh
#
# BRAID_BUILD_JOBS limits the compilers, BRAID_SKIP_BUILD=1 uses the images of an earlier call, and
# BRAID_KEEP=1 leaves the services up.
# Base images that are not there are made with debootstrap, and Prometheus is Debian's. Grafana is
# not started; the queries of its dashboard are. Exit code 77: skipped, since a requirement is
# missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

skip() { echo "containers: skipped: $*"; exit 77; }
fail() { echo "containers: FAILED: $*" >&2; exit 1; }
log() { echo "containers: $*, ${SECONDS} s"; }
[ "$(id -u)" -eq 0 ] || skip "not root"
for program in podman podman-compose iptables debootstrap python3; do
  command -v "$program" > /dev/null || skip "$program is not installed"
done

readonly image=braid:0.1.0 project=braid-test services="embedder-1 embedder-2 neighbors-1 neighbors-2 braidd prometheus"
readonly max_image_bytes=900000000
work=$(mktemp -d "${TMPDIR:-/tmp}/braid-containers.XXXXXX")
compose() { podman-compose -p "$project" -f docker-compose.yml "$@"; }
name() { echo "${project}_$1_1"; }
clean_up() {
  local status=$? service
  if [ "$status" -ne 0 ]; then podman logs --tail 20 "$(name braidd)" >&2 || true; fi
  if [ -z "${BRAID_KEEP:-}" ]; then
    for service in client $services; do podman rm -f -t 2 "$(name "$service")" > /dev/null 2>&1 || true; done
    podman volume rm -f "${project}_data" "${project}_shards" "${project}_metrics" > /dev/null 2>&1 || true
    podman network rm -f "${project}_internal" "${project}_published" > /dev/null 2>&1 || true
  fi
  rm -rf --one-file-system "$work"
  exit "$status"
}
trap clean_up EXIT

# crun of Debian 12 needs unified cgroups, and podman's default limits may exceed the hard ones.
if [ -z "${CONTAINERS_CONF:-}" ] && command -v runc > /dev/null; then
  printf '%s\n' '[containers]' 'default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]' \
    '[engine]' 'cgroup_manager = "cgroupfs"' 'runtime = "runc"' > "$work/containers.conf"
  export CONTAINERS_CONF=$work/containers.conf
fi

# Debian's own slim images are made in the same way: a minimal root without documentation.
base_images() {
  podman image exists debian:12 && podman image exists debian:12-slim && return
  podman pull -q docker.io/library/debian:12 docker.io/library/debian:12-slim > "$work/pull.log" 2>&1 && return
  debootstrap --variant=minbase bookworm "$work/root" > "$work/debootstrap.log"
  rm -rf "$work"/root/var/cache/apt/archives/*.deb "$work"/root/var/lib/apt/lists/*
  tar -C "$work/root" -c . | podman import -q - debian:12 > /dev/null
  printf 'path-exclude=/usr/share/%s/*\n' doc info locale man > "$work/root/etc/dpkg/dpkg.cfg.d/docker"
  rm -rf "$work"/root/usr/share/{doc,info,locale,man}/*
  tar -C "$work/root" -c . | podman import -q - debian:12-slim > /dev/null
}

build_images() {
  base_images
  log "base images are there"
  podman build --format docker --layers -f deploy/Dockerfile -t "$image" \
    --build-arg "COMMIT=$(git rev-parse --short=12 HEAD 2> /dev/null || echo unknown)" \
    --build-arg "JOBS=${BRAID_BUILD_JOBS:-}" . > "$work/build.log" 2>&1 ||
    { tail -n 30 "$work/build.log" >&2; fail "build of the image"; }
  podman build -q -f tests/containers/Prometheus.Dockerfile -t docker.io/prom/prometheus:v2.53.4 tests/containers > /dev/null
}

# Podman's health checks need systemd; is_healthy below runs them instead.
run_once() { podman run --rm --no-healthcheck "$@"; }

check_image() {
  local bytes
  bytes=$(podman image inspect --format '{{.Size}}' "$image")
  log "image has $bytes bytes"
  [ "$bytes" -le "$max_image_bytes" ] || fail "image has $bytes bytes, expected at most $max_image_bytes"
  [ "$(run_once "$image" id -u)" = 1000 ] || fail "the image's user is not 1000"
  run_once "$image" bash -c '! ldd /usr/local/bin/braid* /usr/local/lib/braid/* | grep "not found"' ||
    fail "the image lacks a library"
  run_once "$image" braid --version
  run_once "$image" braid-embedder --help > /dev/null || fail "braid-embedder does not start"
}

# A client in a container of its own, which survives restarts of the services.
start_client() {
  podman run -d --no-healthcheck --name "$(name client)" --init --network "${project}_internal" -v "${project}_data:/data" "$image" \
    sleep infinity > /dev/null
}
inside_client() { podman exec "$(name client)" "$@"; }
braid() { inside_client braid --insecure --server braidd:7077 "$@"; }
field() { python3 -c "import json, sys; print(json.load(sys.stdin)$1)" 2> /dev/null; }
state() { braid --json status "$1" 2> /dev/null | field "['state']" || echo unreachable; }

# Evaluates the rest of the arguments until it succeeds.
wait_until() {
  local seconds=$1 what=$2 end=$((SECONDS + $1))
  shift 2
  until "$@"; do
    [ "$SECONDS" -lt "$end" ] || fail "$what: not within $seconds s"
    sleep 0.5
  done
}
is_healthy() { podman healthcheck run "$(name "$1")" > /dev/null 2>&1; }
has_state() { [ "$(state "$1")" = "$2" ]; }
# Captured, not piped to grep -q, which ends at the first match and fails the program with SIGPIPE.
prints() {
  local text=$1
  shift
  [[ "$("$@" 2>&1 < /dev/null || true)" == *"$text"* ]]
}
reaches_stage() { prints "\"stage\": \"$1\"" braid --json status job-000001; }
step() { braid --json status run-000001 2> /dev/null | field ".get('latest', {}).get('step', 0)" || echo 0; }
passes_step() { [ "$(step)" -gt "$1" ]; }

restart() {
  podman restart -t 120 "$(name "$1")" > /dev/null
  wait_until 60 "$1 is healthy after a restart" is_healthy "$1"
  log "restarted $1"
}

corpus_job() {
  python3 deploy/gather_text.py "$work/corpus.jsonl" --bytes 24MiB --split-bytes 450 > /dev/null
  podman cp "$work/corpus.jsonl" "$(name client):/data/corpus.jsonl"
  braid submit /data/corpus.jsonl --vocab-size 512 --sequence-length 512 --embedder remote \
    --embedding-servers embedder-1:7077 embedder-2:7077 --neighbor-servers neighbors-1:7077 neighbors-2:7077 > /dev/null
  restart braidd
  wait_until 600 "the job embeds" reaches_stage embed
  restart embedder-1
  restart embedder-2
  wait_until 600 "the job searches neighbors" reaches_stage neighbors
  restart neighbors-1
  restart neighbors-2
  has_state job-000001 JOB_SUCCEEDED && fail "the job ended before the last restart: more text is needed"
  wait_until 900 "the job succeeds" has_state job-000001 JOB_SUCCEEDED
  log "corpus job is complete"
}

checkpoints() { inside_client ls /data/braid/runs/run-000001/checkpoints; }

training() {
  braid train --data job-000001 --preset tiny/8E --ranks 2 --threads 1 --steps 2000 > /dev/null
  wait_until 120 "the run passes step 20" passes_step 20
  restart braidd
  # Its end was orderly: the run continues from a checkpoint of that moment, without an incident.
  local first
  first=$(checkpoints | tail -n 1)
  [ -n "$first" ] || fail "no checkpoint after a restart"
  wait_until 180 "the run continues" has_state run-000001 RUN_RUNNING
  wait_until 120 "the run passes $first" passes_step "$((10#${first#step-} + 5))"
  [ "$(braid --json status run-000001 | field ".get('incidents', [])")" = "[]" ] || fail "the restart was an incident"
  log "run continued from $first"
  podman restart -t 30 "$(name prometheus)" > /dev/null
}

stop_with_checkpoint() {
  local before last
  before=$(checkpoints | tail -n 1)
  podman stop -t 120 "$(name braidd)" > /dev/null
  [ "$(podman inspect --format '{{.State.ExitCode}}' "$(name braidd)")" = 0 ] || fail "braidd was killed"
  last=$(checkpoints | tail -n 1)
  [[ "$last" > "$before" ]] || fail "no checkpoint when the container stopped: $before, then $last"
  log "container stopped with $last"
}

# Returns whether a query has a result now.
knows() { prints '=>' podman exec "$(name prometheus)" promtool query instant http://localhost:9090 "$1"; }
scrapes() { knows 'up{job="braid"} == 1'; }

check_prometheus() {
  local query inside=(podman exec "$(name prometheus)")
  wait_until 60 "Prometheus scrapes braidd" scrapes
  # The services have no TLS, hence no certificate, and no token but this one.
  podman exec "$(name braidd)" braid token create --name panel --role viewer --expires 90d > /dev/null
  wait_until 60 "Prometheus knows the token" knows braid_token_expiry_timestamp_seconds
  "${inside[@]}" promtool check config /etc/prometheus/prometheus.yml || fail "promtool check config"
  "${inside[@]}" promtool check rules /etc/prometheus/alerts.yml || fail "promtool check rules"
  python3 - > "$work/queries" << 'EOF'
import json
for panel in json.load(open("deploy/grafana/dashboards/braid.json"))["panels"]:
    for target in panel.get("targets", []):
        if "certificate" not in target["expr"]:
            print(target["expr"].replace("$run", ".*"))
EOF
  while read -r query; do
    prints '@' "${inside[@]}" promtool query range --start="$started" http://localhost:9090 "$query" ||
      fail "no data: $query"
  done < "$work/queries"
  log "$(wc -l < "$work/queries") queries of the dashboard have data"
}

[ -n "${BRAID_SKIP_BUILD:-}" ] || build_images
check_image
started=$(date +%s)
# shellcheck disable=SC2086
compose up -d $services > "$work/up.log" 2>&1 || { tail "$work/up.log" >&2; fail "compose up"; }
for service in embedder-1 embedder-2 neighbors-1 neighbors-2 braidd; do
  wait_until 60 "$service is healthy" is_healthy "$service"
done
log "services are healthy"
start_client
corpus_job
training
check_prometheus
stop_with_checkpoint
log "done"
