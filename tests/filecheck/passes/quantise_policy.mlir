// RUN: dpuc opt --passes quantise{policy=w8a16} %s | filecheck --check-prefix=WIDE %s
// RUN: dpuc opt --passes quantise{policy=w8a8-static} %s | filecheck --check-prefix=STATIC %s
// RUN: dpuc opt --passes quantise{policy=w4a8} %s | filecheck --check-prefix=FOUR %s

// 15-bit pixels have the type i16, and a scale of 1/16319; a static scale needs no row maximum from the producer.
// WIDE-LABEL: func.func @layers
// WIDE:       [[Q:%\d+]] = dpu.q.quantise %x scale 6.1{{.*}}e-05 : f32 : tensor<1x16x8xf16> -> tensor<1x16x8xi16>
// WIDE-NEXT:  [[Y:%\d+]] = dpu.q.conv [[Q]], %w {{.*}} x_scale = 6.1{{.*}} -> tensor<1x16x8xf16>
// WIDE:       dpu.q.linear [[Y]] {{.*}} stats ["row_max"] {{.*}}x_bits = 15 : i64
// WIDE:       dpu.q.linear {{.*}} rows {{.*}}x_bits = 15 : i64
// STATIC-LABEL: func.func @layers
// STATIC:       dpu.q.quantise %x scale 0.00787{{.*}} -> tensor<1x16x8xi8>
// STATIC:       [[Y:%\d+]] = dpu.q.conv
// STATIC:       [[A:%\d+]] = dpu.q.linear [[Y]] weights({{.*}} stats ["none"] {{.*}}x_scale = 0.00787
// STATIC-NEXT:  dpu.q.linear [[A]] weights({{.*}} x_scale = 0.00787
// FOUR-LABEL: func.func @layers
// FOUR:       dpu.q.quantise %x scale 0.00787{{.*}} -> tensor<1x16x8xi8>
// FOUR-NEXT:  [[Y:%\d+]] = dpu.q.conv {{.*}} w_bits = 4 : i64
// FOUR:       dpu.q.linear [[Y]] {{.*}} stats ["row_max"] {{.*}}w_bits = array<i64: 4>
// FOUR:       dpu.q.linear {{.*}} rows {{.*}}w_bits = array<i64: 4>
func.func @layers(%x: tensor<1x16x8xf16>) -> tensor<1x16x8xf16> {
  %w = dpu.param "w" : tensor<8x8x1x1xf16>
  %m = dpu.param "m" : tensor<8x8xf16>
  %y = dpu.conv %x, %w size 4 x 4 stride 1 {pad = array<i64: 0, 0, 0, 0>} : tensor<1x16x8xf16>, tensor<8x8x1x1xf16> -> tensor<1x16x8xf16>
  %a = dpu.linear %y, %m : tensor<1x16x8xf16>, tensor<8x8xf16> -> tensor<1x16x8xf16>
  %b = dpu.linear %a, %m : tensor<1x16x8xf16>, tensor<8x8xf16> -> tensor<1x16x8xf16>
  func.return %b : tensor<1x16x8xf16>
}
