# Steps back into string instructions that go round millions of times: a step is one round, and each has a place.
# program: string_rounds.c
break *&filled
continue
#> Breakpoint 1
print $rcx
#> = 0
reverse-stepi
x/i $pc
#> rep stos
print $rcx
#> = 1
reverse-stepi 10
print $rcx
#> = 11
print bytes[1999988] * 100 + bytes[1999989]
#> = 700
stepi 3
print $rcx
#> = 8
break *&sought
continue
#> Breakpoint 1
continue
#> Breakpoint 2
print $rcx
#> = 4
reverse-stepi
x/i $pc
#> repnz scas
print $rcx
#> = 5
reverse-stepi 300
print $rcx
#> = 305
delete
watch bytes[1000000]
reverse-continue
#> Old value = 7 '\a'
#> New value = 0
print $rcx
#> = 1000000
x/i $pc
#> rep stos
stepi
#> New value = 7 '\a'
delete
reverse-stepi 5
print $rcx
#> = 1000004
break *&seeking
continue
#> Breakpoint 4
print $rcx
#> = 2000000
reverse-stepi 3
continue
#> Breakpoint 4
print $rcx
#> = 2000000
delete
next
#> word = (int)left;
next
#> printf
print word
#> = 4
reverse-next
#> word = (int)left;
