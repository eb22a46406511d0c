//! Names that ask: what they belong to answers yes or no. This is looked at in all crates.

use std::{fs, path::Path};

use syn::visit::{self, Visit};

use crate::reading::sources;

/// Functions and methods by these names ask something. One that changes something, or gives something else
/// than an answer, has a name that says so.
const QUESTIONS: [&str; 14] = [
    "is_", "has_", "may_", "can_", "was_", "wants_", "stands_", "holds_", "waits_", "goes_", "begins_",
    "refuses_", "ends_", "does_",
];

/// Is `bool` a part of a type?
#[derive(Default)]
struct Answers(bool);

impl<'ast> Visit<'ast> for Answers {
    fn visit_ident(&mut self, it: &'ast syn::Ident) {
        self.0 |= it == "bool";
    }
}

/// The names that ask, of what answers neither yes nor no.
#[derive(Default)]
struct Unanswered(Vec<String>);

impl<'ast> Visit<'ast> for Unanswered {
    fn visit_signature(&mut self, it: &'ast syn::Signature) {
        let name = it.ident.to_string();
        let mut answers = Answers::default();
        answers.visit_return_type(&it.output);
        if QUESTIONS.iter().any(|it| name.starts_with(it)) && !answers.0 {
            self.0.push(name);
        }
        visit::visit_signature(self, it);
    }
}

fn unanswered(text: &str) -> Vec<String> {
    let mut found = Unanswered::default();
    found.visit_file(&syn::parse_file(text).expect("it compiles"));
    found.0
}

#[test]
fn what_asks_by_its_name_answers() {
    let crates = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).expect("the crates");
    let mut count = 0;
    for of in crates.map(|of| of.expect("a crate").file_name()) {
        for (module, text) in sources(of.to_str().expect("a name")) {
            let names = unanswered(&text);
            assert!(names.is_empty(), "{of:?}: {}: {names:?}", module.join("/"));
            count += 1;
        }
    }
    assert!(count > 400, "{count} files");
    let text =
        "impl It { fn is_old(&mut self); fn has_it(&mut self) -> Result<(), E>; fn is_new(&self) -> bool; }
        fn may_last() -> Duration; fn can_end() -> Result<Option<bool>, E>;";
    assert_eq!(unanswered(&text.replace(';', " {}")), ["is_old", "has_it", "may_last"]);
}
