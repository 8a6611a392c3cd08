//! The XML that NCCL writes: elements with attributes, and nothing else.
//!
//! NCCL writes no text between elements, no namespaces and no entities, so this reads none. Comments and
//! declarations, which people add to such files, are passed over.
//!
//! Rule: what is no such XML is `None`, however it is damaged, and no depth of it fills the stack.

/// An element.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Element {
    /// Its name.
    pub name: String,
    /// Names and values.
    pub attributes: Vec<(String, String)>,
    /// The elements in it.
    pub children: Vec<Element>,
}

impl Element {
    /// The value of an attribute.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// NCCL's files are some ten elements deep.
const DEEPEST: usize = 64;

/// The element that a file consists of.
pub fn parse(text: &str) -> Option<Element> {
    let mut open: Vec<Element> = Vec::new();
    let mut rest = text;
    loop {
        let (_, tag) = rest.split_once('<')?;
        if let Some(comment) = tag.strip_prefix("!--") {
            rest = comment.split_once("-->")?.1;
            continue;
        }
        let (tag, behind) = tag.split_once('>')?;
        rest = behind;
        if tag.starts_with(['?', '!']) {
            continue;
        }
        let done = if let Some(name) = tag.strip_prefix('/') {
            open.pop().filter(|element| element.name == name.trim())?
        } else {
            let alone = tag.strip_suffix('/');
            let element = element(alone.unwrap_or(tag))?;
            if alone.is_none() {
                if open.len() == DEEPEST {
                    return None;
                }
                open.push(element);
                continue;
            }
            element
        };
        match open.last_mut() {
            Some(parent) => parent.children.push(done),
            None => return Some(done),
        }
    }
}

/// `gpu dev="0" sm="90"`.
fn element(tag: &str) -> Option<Element> {
    let tag = tag.trim();
    let (name, mut rest) = tag.split_once(char::is_whitespace).unwrap_or((tag, ""));
    let mut attributes = Vec::new();
    while let Some((name, behind)) = rest.split_once('=') {
        let (value, behind) = behind.trim_start().strip_prefix('"')?.split_once('"')?;
        attributes.push((name.trim().to_owned(), value.to_owned()));
        rest = behind;
    }
    (!name.is_empty() && rest.trim().is_empty()).then(|| Element {
        name: name.to_owned(),
        attributes,
        children: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_have_attributes_and_children() {
        let root =
            parse("<?xml?>\n<!-- by hand -->\n<a x=\"1\">\n <b y=\"2 3\"/>\n <b></b>\n</a>\n");
        let root = root.expect("XML");
        assert_eq!(
            (root.name.as_str(), root.attribute("x"), root.attribute("z")),
            ("a", Some("1"), None)
        );
        assert_eq!(root.children.len(), 2);
        assert_eq!(root.children[0].attribute("y"), Some("2 3"));
    }

    #[test]
    fn damaged_files_are_none() {
        let deep = "<a>".repeat(100);
        for text in [
            "",
            "<a>",
            "<a x=1/>",
            "<a></b>",
            "<a x=\"1/>",
            "<>",
            "<!-- x",
            &deep,
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
