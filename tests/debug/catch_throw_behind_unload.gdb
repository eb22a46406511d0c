# A catchpoint of exceptions stays when another library than theirs is unloaded.
# program: unloads.cc
break main
continue
catch throw
continue
#> Catchpoint 2 (exception thrown)
reverse-continue
#> Breakpoint 1
continue
#> Catchpoint 2 (exception thrown)
