#!/usr/bin/env bash
# Runs an MPI program on several hosts that are network namespaces of this machine, joined by links of limited rate.
#
#   bench/cluster/run.sh [--hosts 4] [--ranks-per-host 2] [--rate 1gbit] PROGRAM [ARGUMENT ...]
#
# Links may differ, host by host: --rate 100mbit,200mbit,400mbit,800mbit.
# Needs root, iproute2 and Open MPI. Exit status: the program's, or 77 where this machine cannot make such hosts.
set -euo pipefail

hosts=4
ranks_per_host=2
rate=1gbit
while (($#)); do
  case $1 in
    --hosts) hosts=$2 ;;
    --ranks-per-host) ranks_per_host=$2 ;;
    --rate) rate=$2 ;;
    *) break ;;
  esac
  shift 2
done
if ((!$#)); then
  sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi

IFS=, read -ra rates <<<"$rate"
if ((${#rates[@]} != 1 && ${#rates[@]} != hosts)); then
  echo "$hosts hosts have one rate, or $hosts of them: $rate" >&2
  exit 2
fi

# Where a step of the making is refused, so is the whole.
skip() {
  echo "no hosts made of network namespaces here: $1" >&2
  exit 77
}

((EUID == 0)) || skip "not root"
for tool in ip tc unshare; do
  command -v "$tool" >/dev/null || skip "there is no $tool"
done
mpirun=$(command -v mpirun.openmpi || command -v mpirun) || skip "there is no mpirun"
[[ $("$mpirun" --version 2>&1) == *open-mpi.org* ]] || skip "$mpirun is not Open MPI's"

# Names of this run's own. The addresses are seen inside the namespaces only.
name=retile-$$
subnet=10.77.0
folder=$(mktemp -d)

clean_up() {
  for ((i = 0; i < hosts; ++i)); do ip netns delete "$name-host$i" 2>/dev/null || true; done
  ip netns delete "$name-switch" 2>/dev/null || true
  rm -rf "$folder"
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

in_switch() { ip netns exec "$name-switch" "$@"; }

make_switch() {
  ip netns add "$name-switch" &&
    in_switch ip link add name bridge type bridge &&
    in_switch ip link set dev bridge up
}

# A host with a link to the switch, which limits what goes either way.
make_host() {
  local i=$1
  local host=$name-host$i
  local rate=${rates[i % ${#rates[@]}]}
  ip netns add "$host" &&
    ip link add "link$i" netns "$name-switch" type veth peer name uplink netns "$host" &&
    in_switch ip link set dev "link$i" master bridge up &&
    in_switch tc qdisc add dev "link$i" root tbf rate "$rate" burst 64kb latency 50ms &&
    ip netns exec "$host" ip link set dev lo up &&
    ip netns exec "$host" ip address add "$subnet.$((i + 1))/24" dev uplink &&
    ip netns exec "$host" ip link set dev uplink up &&
    ip netns exec "$host" tc qdisc add dev uplink root tbf rate "$rate" burst 64kb latency 50ms
}

make_switch 2>"$folder/errors" || skip "$(cat "$folder/errors")"
for ((i = 0; i < hosts; ++i)); do
  make_host "$i" 2>"$folder/errors" || skip "$(cat "$folder/errors")"
done

# What mpirun uses in place of ssh: "agent ADDRESS COMMAND ...". Each host has a name of its own.
cat >"$folder/agent" <<AGENT
#!/usr/bin/env bash
address=\$1
shift
host=host\$((\${address##*.} - 1))
exec ip netns exec "$name-\$host" unshare --uts bash -c "hostname \$host; \$*"
AGENT
chmod +x "$folder/agent"

list=
for ((i = 0; i < hosts; ++i)); do list+=${list:+,}$subnet.$((i + 1)):$ranks_per_host; done

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# The cores are fewer than these hosts pretend, so ranks that wait must yield to each other. Linux lets them do so within
# a session.
ip netns exec "$name-host0" unshare --uts bash -c 'hostname host0; exec "$@"' bash \
  "$mpirun" --quiet --bind-to none --mca plm_rsh_agent "$folder/agent" --mca plm_rsh_no_tree_spawn 1 \
  --mca oob_tcp_if_include "$subnet.0/24" --mca btl_tcp_if_include "$subnet.0/24" \
  --mca orte_leave_session_attached 1 --mca pml ob1 --mca btl tcp,vader,self --mca mpi_yield_when_idle 1 \
  --host "$list" -np "$((hosts * ranks_per_host))" "$@"
