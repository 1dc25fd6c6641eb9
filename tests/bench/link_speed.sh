#!/usr/bin/env bash
# Step time of two ranks against the speed of the link between them, with the
# reduction overlapped with backward and after it.
#
#   sudo ./tests/bench/link_speed.sh [STEPS] [FIELD=VALUE...]
#
# Each rank runs in a network namespace of its own; a token-bucket filter limits both
# directions of the veth pair between them. Prints a Markdown table: milliseconds of the
# fastest step, and of that what was spent waiting for the other rank. Needs root,
# iproute2 and Open MPI; LINKS and SHARDINGS override what is measured.
set -euo pipefail

steps=${1:-10}
shift || true
read -r -a links <<< "${LINKS:-unlimited 1000mbit 500mbit 250mbit 125mbit}"
read -r -a shardings <<< "${SHARDINGS:-ZERO_1 REPLICATED}"
root=$(cd "$(dirname "$0")/../.." && pwd)
program=${BRAID_BENCH_RANKS:-$root/build/bin/braid-bench-ranks}
fields=(model.num_layers=6 model.d_model=256 model.num_heads=4 model.vocab_size=4096
  model.sequence_length=512 model.routing.segment_length=128 model.routing.num_experts=1
  batch.global_batch_size=4 batch.micro_batch_size=2 reduction.bucket_bytes=2097152 "$@")

here=braid-a-$$ there=braid-b-$$
scratch=$(mktemp -d)
cleanup() {
  ip netns delete "$here" 2>/dev/null || true
  ip netns delete "$there" 2>/dev/null || true
  rm -rf "$scratch"
}
trap cleanup EXIT

# mpirun starts its daemon on the other "machine" with this instead of ssh. Another
# host name keeps Open MPI from taking both for one machine with shared memory.
cat > "$scratch/agent" <<AGENT
#!/bin/sh
shift
exec unshare --uts sh -c 'hostname braid-b; exec ip netns exec $there sh -c "\$*"' sh "\$@"
AGENT
chmod +x "$scratch/agent"

ip netns add "$here"
ip netns add "$there"
ip link add ba netns "$here" type veth peer name bb netns "$there"
ip -n "$here" address add 10.77.0.1/24 dev ba
ip -n "$there" address add 10.77.0.2/24 dev bb
for end in "$here ba" "$there bb"; do
  read -r namespace device <<< "$end"
  ip -n "$namespace" link set lo up
  ip -n "$namespace" link set "$device" up
done

limit() {
  for end in "$here ba" "$there bb"; do
    read -r namespace device <<< "$end"
    tc -n "$namespace" qdisc delete dev "$device" root 2>/dev/null || true
    [ "$1" = unlimited ] ||
      tc -n "$namespace" qdisc add dev "$device" root tbf rate "$1" burst 128kb latency 100ms
  done
}

measure() {
  ip netns exec "$here" mpirun --allow-run-as-root -n 2 --host 10.77.0.1:1,10.77.0.2:1 \
    --bind-to none --mca plm_rsh_agent "$scratch/agent" --mca btl tcp,self \
    --mca btl_tcp_if_include 10.77.0.0/24 --mca oob_tcp_if_include 10.77.0.0/24 \
    -x OMP_NUM_THREADS=1 -x OMP_WAIT_POLICY=PASSIVE \
    "$program" "$steps" "${fields[@]}" "$@"
}

# FIELD of a JSON line, in milliseconds.
milliseconds() { sed -E "s/.*\"$1\": ([0-9.]+).*/\1/" | awk '{ printf "%.0f", $1 * 1000 }'; }

echo "| link | moments | overlapped: step | waiting | after backward: step | waiting |"
echo "|---|---|---|---|---|---|"
for link in "${links[@]}"; do
  limit "$link"
  for sharding in "${shardings[@]}"; do
    row="| $link | $sharding |"
    for after in false true; do
      line=$(measure optimizer_sharding="$sharding" reduction.after_backward="$after")
      row+=" $(milliseconds step_seconds <<< "$line") ms |"
      row+=" $(milliseconds communication <<< "$line") ms |"
    done
    echo "$row"
  done
done
