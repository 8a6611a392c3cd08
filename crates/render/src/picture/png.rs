//! The picture as pixels, for chats, slides and mails that show no SVG.
//!
//! Rule: the fonts of the machine are not asked. The parts of DejaVu Sans in `fonts/` are in the program, so
//! a picture is the same everywhere, also in a container without fonts. A character that they lack is a box.

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree};

const FONTS: [&[u8]; 3] = [
    include_bytes!("../../fonts/DejaVuSans.ttf"),
    include_bytes!("../../fonts/DejaVuSans-Bold.ttf"),
    include_bytes!("../../fonts/DejaVuSansMono-Bold.ttf"),
];

/// A picture as PNG.
pub(super) fn png(svg: &str) -> Option<Vec<u8>> {
    let mut options = Options::default();
    for font in FONTS {
        options.fontdb_mut().load_font_data(font.to_vec());
    }
    let tree = Tree::from_str(svg, &options).ok()?;
    let size = tree.size().to_int_size();
    let mut pixels = Pixmap::new(size.width(), size.height())?;
    resvg::render(&tree, Transform::identity(), &mut pixels.as_mut());
    pixels.encode_png().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A picture of one text in black, and how many of its pixels are dark.
    fn dark(text: &str, face: &str) -> usize {
        let svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 200 40\" width=\"200\" height=\"40\" \
             font-family=\"system-ui,Roboto,'DejaVu Sans',sans-serif\"><rect width=\"200\" height=\"40\" \
             fill=\"#ffffff\"/><text x=\"4\" y=\"30\" font-size=\"24\" {face}>{text}</text></svg>"
        );
        let bytes = png(&svg).expect("a picture");
        assert_eq!(
            bytes,
            png(&svg).expect("the same"),
            "the same bytes each time"
        );
        let pixels = Pixmap::decode_png(&bytes).expect("a PNG");
        assert_eq!((pixels.width(), pixels.height()), (200, 40));
        pixels.pixels().iter().filter(|at| at.red() < 64).count()
    }

    #[test]
    fn text_is_drawn_in_each_face_without_a_font_of_the_machine() {
        let mono = "font-weight=\"600\" font-family=\"ui-monospace,'DejaVu Sans Mono',monospace\"";
        let plain = dark("rank 17", "");
        assert!(plain > 100, "{plain}");
        let bold = dark("rank 17", "font-weight=\"700\"");
        assert!(bold > plain * 5 / 4, "{bold} {plain}");
        assert!(dark("rank 17", mono) > 100);
        for other in ["é", "Ж", "µ", "→", "×", "…", "·"] {
            let drawn = dark(&other.repeat(4), "");
            assert!(
                drawn > 0 && drawn != dark(&"\u{4e00}".repeat(4), ""),
                "{other}"
            );
        }
    }
}
