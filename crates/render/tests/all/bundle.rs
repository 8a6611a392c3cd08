//! Modules of pages become one script, and what would break it stops the build.

use std::path::PathBuf;
use tempfile::TempDir;

#[path = "../../build/bundle.rs"]
mod joining;

fn made(files: &[(&str, &str)]) -> (TempDir, Result<joining::Bundle, String>) {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, text).expect("written");
    }
    let bundle = joining::bundle(&folder.path().join(files[0].0));
    (folder, bundle)
}

#[test]
fn a_module_stands_once_and_after_what_it_imports() {
    let (folder, bundle) = made(&[
        (
            "page.js",
            "import { b } from \"./in/b.js\";\nimport \"./a.js\";\nb(1);\n",
        ),
        (
            "a.js",
            "export const [x, y] = [1, 2];\nexport let z = x + y;\n",
        ),
        (
            "in/b.js",
            "// Why.\nimport {\n  x,\n  z,\n} from \"../a.js\";\n\n\
             export function b(by) {\n  return x + z * by;\n}\n",
        ),
    ]);
    let bundle = bundle.expect("a script");
    let expected = "const [x, y] = [1, 2];\nlet z = x + y;\n\
         // Why.\n\nfunction b(by) {\n  return x + z * by;\n}\n\
         b(1);\n";
    assert_eq!(bundle.script, expected);
    let names = ["a.js", "in/b.js", "page.js"].map(|name| folder.path().join(name));
    assert_eq!(bundle.files, names);
}

#[test]
fn what_would_break_the_script_stops_the_build() {
    let one = |text: &str| made(&[("page.js", text)]).1.expect_err("it is wrong");
    let two = |text: &str, other: &str| {
        let files = [("page.js", text), ("a.js", other)];
        made(&files).1.expect_err("it is wrong")
    };
    let errors = [
        one("import { a } from \"./a.js\";\n"),
        one("import * as a from \"./a.js\";\n"),
        one("import { a } from \"lodash\";\n"),
        one("export default 1;\n"),
        one("const a = \"</script>\";\n"),
        two("import { b } from \"./a.js\";\n", "const b = 1;\n"),
        two(
            "import { b as c } from \"./a.js\";\n",
            "export const b = 1;\n",
        ),
        two("import \"./a.js\";\nconst { b, c } = d;\n", "let c = 1;\n"),
        two("import \"./a.js\";\n", "import \"./page.js\";\n"),
    ];
    let told = [
        "No such file",
        "is not `import",
        "is not `import",
        "is not `export`",
        "would end its element",
        "does not export `b`",
        "is not `import",
        "`c` is declared in",
        "imports itself",
    ];
    for (error, told) in errors.iter().zip(told) {
        assert!(error.contains(told), "{error}");
    }
}

#[test]
fn the_scripts_of_the_pages_are_whole() {
    let html = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("html");
    let mut used = Vec::new();
    for name in ["report.js", "viewer.js"] {
        used.extend(joining::bundle(&html.join(name)).expect("a script").files);
    }
    // No module is in none of them.
    let mut folders = vec![html];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "js") {
                assert!(used.contains(&path), "{}", path.display());
            }
        }
    }
}
