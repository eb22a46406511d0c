#!/bin/bash
# tar with zstd (threads), xz (threads), bzip2, zip, 7z, lz4.
# needs: tar zstd xz bzip2 zip unzip 7z lz4
# version: zstd --version
# setup
mkdir d && for i in $(seq 30); do seq $((i * 300)) > d/$i; done
# record
tar -cf - d | zstd -q -T3 -19 > a.zst && zstd -dc a.zst | tar -tf - | wc -l && tar -cf - d | xz -T3 --block-size=100000 > a.xz && xz -dc a.xz | md5sum | wc -c; tar -cjf a.bz2 d; zip -qr a.zip d && unzip -tq a.zip; 7z a -mmt=3 a.7z d > /dev/null && 7z t a.7z | grep -c Ok; tar -cf - d | lz4 -q > a.lz4; lz4 -dc a.lz4 | tar -xO d/7 | tail -1
# check
tail -1 "$OUT" | grep -q '^2100$'
