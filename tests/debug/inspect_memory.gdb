# find, x, disassemble, info symbol, and the values of registers.
# program: data.c
break data.c:47
continue
print &eight
x/4gd &eight
#> 1
#> 1001
#> 2001
#> 3001
x/s bytes
#> "abcdefghijkl
find /b bytes, +12, 'd', 'e'
#> <bytes+3>
#> 1 pattern found
find &eight, +sizeof(eight), 2001LL
#> <eight+16>
find /b bytes, +12, 'z'
#> Pattern not found
disassemble scope
#> Dump of assembler code for function scope:
#> ret
#> ! int3
#> End of assembler dump
info symbol fill
#> fill in section .text
info registers
#> rax
#> rip
#> main
info line
print *heap
#> {x = 0, y = 0, next = 0x0}
print *(int *)0
#> Cannot access memory at address 0x0
x/i $pc
#> =>
output sizeof(struct point)
#> 16
