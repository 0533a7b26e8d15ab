// SPDX-License-Identifier: MIT
//! Counts words and numbers in many ways, so that the compiler has generics, collections and closures to work on.

mod count;
mod shapes;

use std::io::Read;

fn main() {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).expect("text on standard input");
    let by_word = count::by(&text, |w| w.to_lowercase());
    let by_length = count::by(&text, |w| w.len());
    let by_letter = count::by(&text, |w| w.chars().next().unwrap_or('-'));
    let by_both = count::by(&text, |w| (w.len(), w.chars().last()));
    println!("{:?} {:?}", count::most(&by_word), count::most(&by_length));
    println!("{:?} {:?}", count::most(&by_letter), count::most(&by_both));
    println!("{}", shapes::all(by_word.len() as f64).iter().map(|s| s.area()).sum::<f64>());
    for line in shapes::table(&shapes::all(3.0)) {
        println!("{line}");
    }
}
