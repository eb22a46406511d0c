// A panic that ends the program.
fn divide(total: u64, parts: u64) -> u64 {
    if parts == 0 {
        panic!("nothing to divide by");
    }
    total / parts
}

fn main() {
    let mut sum = 0;
    for parts in (0..3u64).rev() {
        sum += divide(12, parts);
    }
    println!("{sum}");
}
