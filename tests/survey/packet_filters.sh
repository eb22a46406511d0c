#!/bin/bash
# nft and iptables in a network namespace of their own: rules, counters, packets that they drop, lists and their removal.
# needs: nft iptables unshare ip ping
# package: nftables
# limit: 240
# setup
cat > inside.sh <<'END'
ip link set lo up; ping -qc 1 -W 1 127.0.0.1 | grep -c ' 0% packet loss'
nft -f - <<'X'
table inet t {
  set s { type ipv4_addr; elements = { 127.0.0.9, 127.0.0.10 } }
  chain c {
    type filter hook input priority 0;
    ip daddr @s counter drop
    tcp dport { 80, 443 } accept
  }
}
X
nft list ruleset; ping -qc 1 -W 1 127.0.0.9 | grep -c '100% packet loss'
nft -j list ruleset | wc -l; nft list counters; nft flush ruleset; nft list ruleset
iptables -A INPUT -p icmp -d 127.0.0.8 -j DROP; iptables -S; iptables-save | grep -c icmp; iptables -F
iptables-legacy -A OUTPUT -p tcp --dport 9 -j REJECT; iptables-legacy -S; iptables-legacy-save | grep -c REJECT; ip6tables -L -n
ip addr add 192.0.2.1/24 dev lo; ip -j addr show dev lo | wc -l; ip route show table all | wc -l
END
# record
exec unshare -n bash inside.sh
# check
grep -q 'table inet t' "$OUT"
