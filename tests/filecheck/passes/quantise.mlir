// RUN: dpuc opt --passes quantise %s | filecheck %s

// Without calibration every maximum is one, so a scale is 1/127. Two convolutions share one int8 form of their input.
// CHECK-LABEL: func.func @static
// CHECK:       [[Q:%\d+]] = dpu.q.quantise %x scale 0.00787{{.*}} : tensor<1x16x8xf16> -> tensor<1x16x8xi8>
// CHECK-NEXT:  dpu.q.conv [[Q]], %w {{.*}} x_scale = 0.00787
// CHECK-NEXT:  dpu.q.conv [[Q]], %w
// CHECK-NOT:   dpu.q.quantise
func.func @static(%x: tensor<1x16x8xf16>) -> (tensor<1x16x8xf16>, tensor<1x16x8xf16>) {
  %w = dpu.param "w" : tensor<8x8x1x1xf16>
  %a = dpu.conv %x, %w size 4 x 4 stride 1 {pad = array<i64: 0, 0, 0, 0>} : tensor<1x16x8xf16>, tensor<8x8x1x1xf16> -> tensor<1x16x8xf16>
  %b = dpu.conv %x, %w size 4 x 4 stride 1 {pad = array<i64: 0, 0, 0, 0>} : tensor<1x16x8xf16>, tensor<8x8x1x1xf16> -> tensor<1x16x8xf16>
  func.return %a, %b : tensor<1x16x8xf16>, tensor<1x16x8xf16>
}

// A GroupNorm takes its statistics from its producer, and writes int8 for the convolution that reads it.
// CHECK-LABEL: func.func @statistics
// CHECK:       [[Y:%\d+]], [[S:%\d+]] = dpu.q.conv {{.*}} -> tensor<1x16x8xf16>, tensor<1x?x16xf32>
// CHECK-NEXT:  [[N:%\d+]] = dpu.q.group_norm [[Y]] stats [[S]]{{.*}} act "silu" scale 0.00787{{.*}} -> tensor<1x16x8xi8>
// CHECK-NEXT:  dpu.q.conv [[N]], %w
func.func @statistics(%x: tensor<1x16x8xf16>) -> tensor<1x16x8xf16> {
  %w = dpu.param "w" : tensor<8x8x1x1xf16>
  %g = dpu.param "g" : tensor<8xf16>
  %y = dpu.conv %x, %w size 4 x 4 stride 1 {pad = array<i64: 0, 0, 0, 0>} : tensor<1x16x8xf16>, tensor<8x8x1x1xf16> -> tensor<1x16x8xf16>
  %n = dpu.group_norm %y, %g, %g groups 4 eps 1.0e-5 act "silu" : tensor<1x16x8xf16>, tensor<8xf16>, tensor<8xf16> -> tensor<1x16x8xf16>
  %z = dpu.conv %n, %w size 4 x 4 stride 1 {pad = array<i64: 0, 0, 0, 0>} : tensor<1x16x8xf16>, tensor<8x8x1x1xf16> -> tensor<1x16x8xf16>
  func.return %z : tensor<1x16x8xf16>
}

// Queries, keys and values of one input are sections of one operation, with LayerNorm as its prologue.
// CHECK-LABEL: func.func @sections
// CHECK:       [[Q:%\d+]], [[QS:%\d+]], [[K:%\d+]], [[V:%\d+]], [[S:%\d+]] = dpu.q.linear %x norm %g : tensor<8xf16>, %g : tensor<8xf16> weights(%w, %w, %w : {{.*}} kinds ["q8_head", "q8_static", "f16"] stats ["none", "none", "column_pair"]
// CHECK:       [[C:%\d+]], [[M:%\d+]] = dpu.q.centre [[V]] stats [[S]]
// CHECK:       dpu.q.attention [[Q]] scale [[QS]], [[K]], [[C]] mu [[M]]
func.func @sections(%x: tensor<1x16x8xf16>) -> tensor<1x16x8xf16> {
  %w = dpu.param "w" : tensor<8x8xf16>
  %g = dpu.param "g" : tensor<8xf16>
  %l = dpu.layer_norm %x, %g, %g eps 1.0e-5 : f64 : tensor<1x16x8xf16>, tensor<8xf16>, tensor<8xf16> -> tensor<1x16x8xf16>
  %q = dpu.linear %l, %w : tensor<1x16x8xf16>, tensor<8x8xf16> -> tensor<1x16x8xf16>
  %k = dpu.linear %l, %w : tensor<1x16x8xf16>, tensor<8x8xf16> -> tensor<1x16x8xf16>
  %v = dpu.linear %l, %w : tensor<1x16x8xf16>, tensor<8x8xf16> -> tensor<1x16x8xf16>
  %a = dpu.attention %q, %k, %v heads 1 scale 0.35 key_block 1024 prob_bits 8 : i64 : tensor<1x16x8xf16>, tensor<1x16x8xf16>, tensor<1x16x8xf16> -> tensor<1x16x8xf16>
  func.return %a : tensor<1x16x8xf16>
}

// Linears of one input that feed no attention stay apart; both take the row maximum of their input.
// CHECK-LABEL: func.func @apart
// CHECK:       [[H:%\d+]], [[A:%\d+]] = dpu.q.linear %x weights(%w : {{.*}} stats ["row_max"]
// CHECK-NEXT:  dpu.q.linear [[H]] rows [[A]] : tensor<1x1x16xf32> weights(%w : {{.*}} kinds ["f16"]
// CHECK-NEXT:  dpu.q.linear [[H]] rows [[A]] : tensor<1x1x16xf32> weights(%w : {{.*}} kinds ["f16"]
func.func @apart(%x: tensor<1x16x8xf16>) -> (tensor<1x16x8xf16>, tensor<1x16x8xf16>) {
  %w = dpu.param "w" : tensor<8x8xf16>
  %h = dpu.linear %x, %w : tensor<1x16x8xf16>, tensor<8x8xf16> -> tensor<1x16x8xf16>
  %a = dpu.linear %h, %w : tensor<1x16x8xf16>, tensor<8x8xf16> -> tensor<1x16x8xf16>
  %b = dpu.linear %h, %w : tensor<1x16x8xf16>, tensor<8x8xf16> -> tensor<1x16x8xf16>
  func.return %a, %b : tensor<1x16x8xf16>, tensor<1x16x8xf16>
}
