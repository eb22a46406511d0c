#!/bin/bash
# ffmpeg makes a film, encodes it with several threads, and decodes it.
# needs: ffmpeg
# version: ffmpeg -version
# limit: 300
# record
ffmpeg -v error -f lavfi -i testsrc=duration=1:size=320x240:rate=25 -f lavfi -i sine=duration=1 -c:v libx264 -threads 3 -c:a aac -y a.mp4 && ffmpeg -v error -i a.mp4 -vf scale=160:-1 -f framemd5 - | tail -5
# check
test "$(wc -l < "$OUT")" = 5
