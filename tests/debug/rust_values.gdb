# Rust: a thread, values of its kinds, a field that is watched backwards, and a function that is called.
# program: values.rs
break values::put
continue
#> values::put
print shape
#> values::Shape::Square(1)
watch -location shelf.total
continue
#> Old value = 0
#> New value = 1
continue
#> values::put
continue
#> New value = 5
tbreak values.rs:36
continue
#> values::put
continue
#> New value = 14
continue
#> values::put
print shape
#> ~ Named.*sides: 6
continue
#> values.rs:36
print total
#> = 14
reverse-continue
#> values::put
reverse-continue
#> Old value = 14
#> New value = 5
print side
#> 3
reverse-step
