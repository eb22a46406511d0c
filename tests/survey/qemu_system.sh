#!/bin/bash
# qemu-img, qemu-nbd, qemu-io, and a machine of qemu's own emulation that boots a sector which prints.
# needs: qemu-img qemu-io qemu-nbd qemu-system-x86_64 python3
# package: qemu-system-x86
# limit: 240
# stderr varies: warnings
# setup
python3 - <<'END'
code = bytes.fromhex("b8c00789" "d8") # padding, replaced below
code = bytearray()
for c in b"hello from the sector\n":
    code += bytes([0xB0, c, 0xBA, 0xE9, 0x00, 0xEE])      # mov al, c; mov dx, 0xe9; out dx, al
code += bytes([0xB0, 0x10, 0xBA, 0x01, 0x05, 0xEE, 0xF4]) # out 0x501, 0x10: isa-debug-exit
open("boot", "wb").write(code.ljust(510, b"\0") + b"\x55\xaa")
END
# record
qemu-img create -q -f qcow2 a.qcow2 64M; qemu-io -c 'write -P 7 1M 3M' a.qcow2 | grep -c wrote; qemu-img convert -m 4 -O raw a.qcow2 a.raw; qemu-img compare a.qcow2 a.raw; qemu-img snapshot -c s a.qcow2; qemu-img info a.qcow2 | grep -c snapshot; qemu-img check a.qcow2; qemu-system-x86_64 -accel tcg -display none -no-reboot -m 32 -drive file=boot,format=raw -debugcon stdio -device isa-debug-exit,iobase=0x501,iosize=1; echo $?; qemu-system-x86_64 -accel tcg,thread=multi -smp 2 -display none -no-reboot -m 32 -drive file=boot,format=raw -debugcon stdio -device isa-debug-exit,iobase=0x501,iosize=1; echo $?
# check
test "$(grep -c 'hello from the sector' "$OUT")" = 2
