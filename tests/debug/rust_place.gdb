# Where one is, as text: Rust shows what $_bis_place holds as numbers.
# program: values.rs
break values::put
continue
#> values::put
when-place
#> ~ [0-9]+\+0x[0-9a-f]+#[0-9]+
continue
when-place
#> ~ [0-9]+\+0x[0-9a-f]+#[0-9]+
reverse-continue
when-place
#> ~ [0-9]+\+0x[0-9a-f]+#[0-9]+
info record
#> This is a recording
