# Steps of a program that runs: over lines, into functions, over loops, out of functions, by instructions.
# program: live.c
# modes: live
# status: 7
break work
continue
#> begin
#> work (n=10)
next
#> for
step
#> sum += i
print i
#> = 1
stepi
stepi
next
until 11
#> total += sum
print sum
#> = 55
next
#> return sum
print total
#> = 55
finish
#> Value returned is
#> = 55
next
#> printf
next
#> round 1: 55
#> for
step
#> got = work
step
#> work (n=20)
next
#> for
tbreak 11
continue
#> total += sum
print sum
#> = 210
reverse-step
#> for
next
#> total += sum
delete
continue
#> ! round 1
#> round 2: 210
#> round 3: 465
#> end 730
