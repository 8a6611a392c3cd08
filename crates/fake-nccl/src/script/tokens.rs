//! Splits a script into words, braces and ends of statements.

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) line: usize,
    pub(super) text: String,
}

pub(super) fn tokens(source: &str) -> Vec<Token> {
    let mut out = Vec::new();
    for (index, text) in source.lines().enumerate() {
        let line = index + 1;
        let mut push = |text: &str| {
            out.push(Token {
                line,
                text: text.to_string(),
            })
        };
        let mut word = String::new();
        let mut quoted = false;
        for c in text.chars() {
            match c {
                '"' => {
                    quoted = !quoted;
                    word.push(c);
                }
                _ if quoted => word.push(c),
                '#' => break,
                '{' | '}' | ';' => {
                    if !word.is_empty() {
                        push(&std::mem::take(&mut word));
                    }
                    push(c.encode_utf8(&mut [0; 4]));
                }
                c if c.is_whitespace() => {
                    if !word.is_empty() {
                        push(&std::mem::take(&mut word));
                    }
                }
                c => word.push(c),
            }
        }
        if !word.is_empty() {
            push(&word);
        }
        push(";");
    }
    out
}
