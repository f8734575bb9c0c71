#!/usr/bin/env bash
# The story of one array: planned, compared, checked, run, bounded, and drawn into build/demo.html.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PWD/build/release:$PATH"
picture=build/demo.html

if [[ -t 1 && -z ${NO_COLOR:-} ]]; then bold=$'\e[1m' plain=$'\e[0m'; else bold='' plain=''; fi

# tell TITLE SENTENCE...
tell() {
  printf '\n%s== %s%s\n' "$bold" "$1" "$plain"
  printf '%s\n' "${@:2}"
}

# show COMMAND: says what is run, then runs it.
show() {
  printf '\n$ %s\n' "$1"
  bash -c "set -o pipefail; $1"
}

# show_refused COMMAND: the same, of what is at fault.
show_refused() {
  ! show "$1" || return 1
  printf '(exit status 1)\n'
}

ends="--mesh x=2,y=4 '[64{y,x}512, 512]' '[512, 128{y}512]'"

tell "1. An array on eight devices" \
  "A matrix of 512 x 512 lies on a mesh of 2 x 4 devices, each with 64 of its rows. What comes next needs columns:" \
  "128 of 512 on each, so that the two rows of the mesh hold the same. How does it get there?"
show "retile plan $ends"

tell "2. Why that matters" \
  "The rules of XLA, the compiler behind JAX, have no way from here to there. They make the whole matrix on every" \
  "device, and keep a part of it: four times the memory, four times the bytes."
show "retile plan $ends --planner xla"

tell "3. Is the plan right?" \
  "A verifier that shares no code with the planner replays it box by box. Then it runs on real data, and every" \
  "element on every device is compared."
show "retile plan $ends --json | retile verify -"
show "retile run $ends"

tell "4. In as much memory as there is" \
  "A limit is a promise about all that a device holds in a run. One that cannot be kept is refused before anything moves."
show_refused "retile plan $ends --memory-limit 300KiB"

tell "5. From what you have" \
  "A compiler's warning, pasted as it is: what it does, what could be done, and why."
show "retile explain '[SPMD] Involuntary full rematerialization. The compiler cannot go from sharding {devices=[2,1,4]<=[4,2]T(1,0)} to {devices=[1,8,1]<=[8]} efficiently for HLO operation %copy.1 = f32[8,16,4]{2,1,0} copy(%x)'"

tell "6. The paper's collectives" \
  "Four steps that every communication library has, in the cheapest order, with a proof that none is cheaper:"
show "retile plan --mesh x=4,y=2,z=4 '[1{y,x}8, 8, 8, 4]' '[8, 4{y}8, 2{x}8, 4]' --planner paper"

tell "7. A program" \
  "In a small language of distributed arrays, redistributions are chosen by the compiler. This one is run and verified."
show "retile run examples/chain.spmd --verify"

tell "8. A picture" \
  "The first plan and XLA's, step by step: who holds what, who sends what to whom."
show "retile draw --mesh x=2,y=4 '[2{y,x}16, 16]' '[16, 4{y}16]' --beside xla --out $picture"
printf '\n%sOpen %s in a browser.%s The README goes on from here.\n' "$bold" "$PWD/$picture" "$plain"
