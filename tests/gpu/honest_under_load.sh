#!/bin/sh
# honest_under_load.sh PROGRAM [LIMIT]: bench-honest-under-load on each pair of this machine's cores at once, each beside 8
# spinning threads on the same two cores, for LIMIT (540s, or a number of evaluations for each pair). Needs g++, no GPU.
set -eu
program=$1 limit=${2:-540s}
work=$(mktemp -d "${TMPDIR:-/tmp}/cultivar-load-XXXXXX")
trap 'rm -rf "$work"' EXIT
pair=0
while [ $((2 * pair + 2)) -le "$(nproc)" ]; do
  taskset -c $((2 * pair)),$((2 * pair + 1)) "$program" "$limit" 8 >"$work/$pair" 2>&1 &
  pair=$((pair + 1))
done
wait
cat "$work"/*
awk -v pairs=$pair '/ spinning threads: [0-9]+ refused$/ { programs++; all += $1; refused += $(NF - 1) }
  END { printf "load: %d evaluations on %d pairs of cores, %d refused\n", all, programs, refused
        exit programs != pairs || refused > 0 || all == 0 }' "$work"/*
