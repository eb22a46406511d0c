# What is watched by its page lies beside memory that instructions fill and copy which repeat themselves: only the rounds on that page
# are made one by one.
# program: beside_rep.c
tbreak main
continue
watch all.name
continue
#> New value = "f"
continue
#> New value = "fi
delete
tbreak fill
continue
#> fill (
watch all.name
continue
#> Old value = "fi
#> New value = "Fi
continue
#> Old value = "Fi
#> New value = "fi
reverse-continue
#> Old value = "fi
#> New value = "Fi
reverse-continue
#> Old value = "Fi
#> New value = "fi
