# Many libraries that are loaded one by one, one of them left again, and one in a namespace of its own.
# program: many.c
# library: plugin.c
# args: {library}
break loaded if number == 20
continue
#> loaded (number=20)
info sharedlibrary
#> ~ Yes .*copy_0.so
#> ~ Yes .*copy_14.so
#> ! copy_15.so
#> ~ Yes .*copy_16.so
#> ~ Yes .*copy_20.so
info symbol answer
#> plugin_answer in section .text of
#> copy_20.so
# gdb stops in the dynamic linker at each library, backwards too. Back over the one that is left:
delete
tbreak loaded if number == 14
reverse-continue
#> loaded (number=14)
info sharedlibrary
#> ~ Yes .*copy_14.so
#> ! copy_16.so
continue
#> exited with status 0
tbreak many.c:43
reverse-continue
info symbol answer
#> plugin_answer in section .text of
#> plugin.so
