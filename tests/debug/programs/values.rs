// A thread, a lock, and values of Rust's own kinds.
use std::sync::{Arc, Mutex};
use std::thread;

#[derive(Debug, Clone)]
enum Shape {
    Square(u32),
    Named { name: String, sides: u8 },
}

struct Shelf {
    shapes: Vec<Shape>,
    total: u32,
}

#[inline(never)]
fn put(shelf: &mut Shelf, shape: Shape) -> u32 {
    if let Shape::Square(side) = &shape {
        shelf.total += side * side;
    }
    shelf.shapes.push(shape);
    shelf.total
}

fn main() {
    let shelf = Arc::new(Mutex::new(Shelf { shapes: Vec::new(), total: 0 }));
    let other = Arc::clone(&shelf);
    let thread = thread::spawn(move || {
        for side in 1..=3 {
            put(&mut other.lock().unwrap(), Shape::Square(side));
        }
    });
    thread.join().unwrap();
    let named = Shape::Named { name: "hexagon".to_owned(), sides: 6 };
    let total = put(&mut shelf.lock().unwrap(), named);
    println!("{total} {}", shelf.lock().unwrap().shapes.len());
}
