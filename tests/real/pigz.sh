#!/bin/bash
# pigz with three threads on 11 MB, and back.
# needs: pigz
# setup
seq 1 1500000 > data
cp data original
# record
pigz -p 3 -k data && pigz -dc data.gz > back
# check
cmp original back
