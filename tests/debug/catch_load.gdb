# A library that is loaded at run time is caught when it comes, forwards.
# program: loads.c
# library: plugin.c
# args: {library}
tbreak main
continue
catch load plugin
continue
#> Inferior loaded
#> plugin
info sharedlibrary
#> ~ Yes .*plugin
delete
tbreak plugin_answer
continue
#> plugin_answer (question=21)
reverse-finish
#> main
