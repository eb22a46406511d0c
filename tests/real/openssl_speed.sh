#!/bin/bash
# openssl's measurement of itself: a loop that a signal of a timer ends, for each cipher and length; and in two processes.
# needs: openssl
# version: openssl version
# record
openssl speed -seconds 1 -bytes 1024 -evp sha256 && openssl speed -seconds 1 -bytes 64 -multi 2 -evp aes-128-cbc && echo finished
# check
grep -q finished "$OUT"
