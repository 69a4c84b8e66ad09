//! A drawing as a picture of pixels: PNG, which goes where SVG does not.

use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::fontdb::{Database, FaceInfo, Family, Query, Style, Weight};
use resvg::usvg::{Options, Tree};

/// So many pixels for one of the drawing, each way: sharp where two lie on one of the screen, too.
const SCALE: f32 = 2.0;

/// The fonts of this machine, with which texts are drawn.
pub struct Fonts(Arc<Database>);

impl Fonts {
    /// Fails where there is none: a picture without its texts would say nothing.
    pub fn of_the_machine() -> Result<Fonts, String> {
        let mut known = Database::new();
        known.load_system_fonts();
        Fonts::choose(known)
    }

    fn choose(mut known: Database) -> Result<Fonts, String> {
        let sans = Query { families: &[Family::SansSerif], ..Query::default() };
        if known.query(&sans).is_none() {
            let is_plain =
                |face: &&FaceInfo| face.style == Style::Normal && face.weight == Weight::NORMAL;
            let name = |face: &FaceInfo| face.families.first().map(|(name, _)| name.clone());
            let serifs = |face: &&FaceInfo| {
                !name(face).unwrap_or_default().to_ascii_lowercase().contains("sans")
            };
            let plain = known.faces().filter(is_plain);
            let plain = plain.min_by_key(|face| (face.monospaced, serifs(face))).and_then(name);
            let Some(family) = plain else {
                return Err("there is no font on this machine to draw its texts with; install \
                            one, such as Debian's fonts-dejavu-core, or give a name that ends in \
                            .svg"
                    .to_owned());
            };
            known.set_sans_serif_family(family);
        }
        Ok(Fonts(Arc::new(known)))
    }

    /// The bytes of a PNG file.
    pub fn draw(&self, svg: &str) -> Result<Vec<u8>, String> {
        let options = Options { fontdb: Arc::clone(&self.0), ..Options::default() };
        let tree = Tree::from_str(svg, &options).map_err(|error| error.to_string())?;
        let size = tree.size();
        let [width, height] = [size.width(), size.height()].map(|side| (side * SCALE).ceil());
        let mut pixels = Pixmap::new(width as u32, height as u32)
            .ok_or_else(|| format!("a picture of {width} by {height} pixels is too large"))?;
        resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
        pixels.encode_png().map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWING: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"60\" height=\"20\">\
        <rect width=\"60\" height=\"20\" fill=\"white\"/>\
        <rect width=\"10\" height=\"20\" fill=\"#0000FF\"/>\
        <text x=\"12\" y=\"16\" font-family=\"sans-serif\" font-size=\"14\" fill=\"black\">loss</text>\
        </svg>";

    #[test]
    fn areas_and_texts_are_in_the_picture() {
        let Ok(fonts) = Fonts::of_the_machine() else {
            // The other test is about such a machine.
            println!("areas_and_texts_are_in_the_picture: SKIPPED: there is no font");
            return;
        };
        let picture = Pixmap::decode_png(&fonts.draw(DRAWING).unwrap()).unwrap();
        assert_eq!((picture.width(), picture.height()), (120, 40));
        let colour = |x, y| {
            let pixel = picture.pixel(x, y).unwrap();
            (pixel.red(), pixel.green(), pixel.blue(), pixel.alpha())
        };
        assert_eq!(colour(5, 5), (0, 0, 255, 255));
        assert_eq!(colour(118, 38), (255, 255, 255, 255));
        let dark = (22..120).flat_map(|x| (0..40).map(move |y| (x, y)));
        let dark = dark.filter(|&(x, y)| colour(x, y).0 < 64).count();
        assert!(dark > 50, "{dark} dark pixels are no word");
    }

    #[test]
    fn without_a_font_there_is_no_picture() {
        let refused = Fonts::choose(Database::new()).err().unwrap();
        assert!(refused.contains("no font") && refused.contains(".svg"), "{refused}");
    }

    #[test]
    fn what_is_no_drawing_is_refused() {
        let fonts = Fonts(Arc::new(Database::new()));
        assert!(fonts.draw("no drawing").is_err());
    }
}
