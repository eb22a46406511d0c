#!/bin/bash
# tshark reads a capture that text2pcap has made. (It cannot capture in a recording: packet rings are refused.)
# needs: tshark text2pcap
# limit: 240
# setup
for i in $(seq 50); do printf '%06x' 0; for b in 45 00 00 21 00 01 00 00 40 11 00 00 7f 00 00 01 7f 00 00 01 26 1b 26 1b 00 0d 00 00 68 65 6c 6c 6f; do printf ' %s' $b; done; echo; done > hex
text2pcap -q -l 101 hex a.pcap > /dev/null 2>&1
# record
tshark -r a.pcap -T fields -e udp.length -e udp.dstport -e ip.src 2> /dev/null | sort | uniq -c; tshark -r a.pcap -q -z io,phs 2> /dev/null
# check
grep -q '50 13.9755' "$OUT"
