//! Writes the seeds of all targets into a folder for each: `seeds FOLDER`.

fn main() -> std::io::Result<()> {
    let folder = std::env::args_os().nth(1).expect("a folder");
    for target in umbo_fuzz::TARGETS {
        let folder = std::path::Path::new(&folder).join(target.name);
        std::fs::create_dir_all(&folder)?;
        for (number, seed) in (target.seeds)().iter().enumerate() {
            std::fs::write(folder.join(format!("seed{number}")), seed)?;
        }
    }
    Ok(())
}
