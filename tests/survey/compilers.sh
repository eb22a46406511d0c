#!/bin/bash
# gfortran, gnat (tasks of Ada), nasm, gcc with -flto and several passes at once.
# needs: gfortran gnatmake nasm gcc
# version: gfortran --version
# limit: 300
# setup
printf 'program a\n real :: x(100)\n integer :: i\n do i = 1, 100\n x(i) = i\n end do\n print *, sum(x)\nend program\n' > a.f90
cat > b.adb <<'END'
with Ada.Text_IO; procedure B is
  task type T is entry Go (N : Integer; R : out Integer); end T;
  task body T is begin accept Go (N : Integer; R : out Integer) do R := N * N; end Go; end T;
  Ts : array (1 .. 3) of T; R : Integer;
begin for I in Ts'Range loop Ts (I).Go (I, R); Ada.Text_IO.Put_Line (R'Image); end loop; end B;
END
printf 'global _start\nsection .text\n_start: mov eax, 60\nmov edi, 9\nsyscall\n' > c.asm
echo 'int main(void) { return 8; }' > d.c
# record
gfortran -O2 -o a a.f90 && ./a; gnatmake -q b.adb && ./b; nasm -f elf64 c.asm && ld -o c c.o && ./c; echo $?; gcc -O2 -flto=2 -pipe -o d d.c && ./d; echo $?
# check
tail -1 "$OUT" | grep -q '^8$'
