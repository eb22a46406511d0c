# Vector registers and those of the x87.
# program: vectors.c
break scale
continue
print $xmm0.v2_double[0]
#> = 4
finish
#> Value returned is $2 = 10
print $xmm0.v2_double
#> = {10, 0}
tbreak printf
continue
print exact
#> = 2.5
info all-registers
#> mxcsr
#> ~ (x|y|z)mm0
info float
#> Status Word
print $st0
info registers mxcsr
#> 0x1f80
