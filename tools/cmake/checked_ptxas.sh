#!/bin/sh
# checked_ptxas.sh COMMAND…: runs a compilation with -Xptxas -v and fails where ptxas tells of a kernel that is slower
# than it was written to be: registers that spill to memory, or a performance loss (C75xx), above all wgmma instructions
# that wait for each other. What ptxas says else is not shown.

output=$("$@" 2>&1)
status=$?
printf '%s' "$output" | grep -v -e '^ptxas info' -e 'bytes stack frame' >&2
found=$(printf '%s\n' "$output" | grep -B 1 -E '\(C75[0-9]+\)|[1-9][0-9]* bytes spill')
if [ "$status" -ne 0 ] || [ -z "$found" ]; then
  exit "$status"
fi

printf 'error: kernels spill registers or lose performance:\n%s\n' "$found" >&2
# Nobody may take what was compiled for done.
while [ $# -gt 1 ]; do
  if [ "$1" = -o ]; then
    rm -f -- "$2"
  fi
  shift
done
exit 1
