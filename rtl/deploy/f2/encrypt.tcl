# The HDK's build sources this before synthesis, to collect the sources. They are public, so they are copied as they are.
# Set by the HDK: design_dir, src_post_enc_dir.

file delete -force {*}[glob -nocomplain -directory $src_post_enc_dir *]
foreach path [glob -directory $design_dir *.sv *.vh *.txt] {
  file copy -force $path $src_post_enc_dir/
}
