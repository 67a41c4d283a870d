// Proof of dpu_dma_check: a word that passes stays inside its region, and the runs it is cut into touch nothing else.
// Any words, any regions; places are relative to the region's base. Four registers without feedback: a few cycles after reset are all.
// The spans (n - 1) d are written as the same products as in the module; that its sums and verdict are right is proved.

module dpu_dma_check_formal
  import dpu_dma_pkg::*;
#(
  parameter bit Store = 1'b0
) (
  input logic                   clk_i,
  input dpu_pkg::region_t [7:0] regions_i,
  input logic                   valid_i,
  input dpu_isa_pkg::dma_word_t word_i,
  input slot_t                  slot_i
);

  import dpu_isa_pkg::*;

  logic        rst_ni, busy, valid;
  runs_t       runs;
  walk_t       walk;
  logic [63:0] fault_address;

  dpu_formal_reset u_reset (.clk_i, .rst_no(rst_ni));
  dpu_dma_check #(.Store(Store)) dut (
    .*, .busy_o(busy), .valid_o(valid), .runs_o(runs), .walk_o(walk), .fault_address_o(fault_address)
  );

  // The word and its region, as many cycles late as the check takes.
  dma_word_t        word_q [4];
  dpu_pkg::region_t region_q [4];
  logic [3:0]       valid_q;
  logic [1:0]       slot_q [4];
  typedef logic signed [52:0] wide_t;
  function automatic logic signed [48:0] span(input logic [15:0] n, input logic [31:0] d);
    return 49'($signed({1'b0, n - 16'd1}) * $signed(d));
  endfunction
  // Products and registers are those of the module, so that the solver need not compare two multipliers.
  logic [2:0][48:0] spans, span_q [4];
  for (genvar k = 0; k < 3; k++) begin : gen_spans
    assign spans[k] = span(word_q[0].n[k], word_q[0].dstride[k]);
  end
  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      word_q[0]   <= word_i;
      region_q[0] <= regions_i[word_i.base[2:0]];
      slot_q[0]   <= slot_i;
    end
    for (int unsigned i = 1; i < 4; i++) begin
      if (valid_q[i-1]) begin
        word_q[i]   <= word_q[i-1];
        region_q[i] <= region_q[i-1];
        slot_q[i]   <= slot_q[i-1];
        span_q[i]   <= i == 1 ? spans : span_q[i-1];
      end
    end
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else         valid_q <= {valid_q[2:0], valid_i};
  end

  function automatic wide_t up(input logic signed [48:0] x);
    return x[48] ? '0 : 53'(x);
  endfunction
  function automatic wide_t down(input logic signed [48:0] x);
    return x[48] ? 53'(x) : '0;
  endfunction

  // Ends relative to the word's first byte, and that byte relative to the region.
  dma_word_t  word;
  wide_t      low, high, runs_low, runs_high;
  logic signed [66:0] offset, limit;
  logic signed [48:0] run_span [3];
  assign word      = word_q[3];
  assign offset    = $signed({3'b0, word.offset});
  assign limit     = $signed({3'b0, region_q[3].limit});
  assign low       = down($signed(span_q[3][0])) + down($signed(span_q[3][1])) + down($signed(span_q[3][2]));
  assign high      = up($signed(span_q[3][0])) + up($signed(span_q[3][1])) + up($signed(span_q[3][2])) +
                     53'($signed({1'b0, word.inner}));
  for (genvar k = 0; k < 3; k++) begin : gen_span
    assign run_span[k] = runs.n[k] == 16'd1 ? '0 : $signed(span_q[3][k]);
  end
  assign runs_low  = down(run_span[0]) + down(run_span[1]) + down(run_span[2]);
  assign runs_high = up(run_span[0]) + up(run_span[1]) + up(run_span[2]) + 53'($signed({1'b0, runs.run}));

  // A product has the sign of its factors; a fact of arithmetic that the solver is told, not asked.
  function automatic logic product(input logic [15:0] k, input logic [31:0] d, input logic signed [48:0] kd);
    if (k == '0 || d == '0) return kd == '0;
    return kd[48] == d[31] && kd[47] == d[31] && kd != '0;
  endfunction
  logic [2:0] facts;
  for (genvar k = 0; k < 3; k++) begin : gen_facts
    assign facts[k] = product(word_q[1].n[k] - 16'd1, word_q[1].dstride[k], $signed(span_q[1][k]));
  end

  logic moves;  // the word reaches DRAM
  assign moves = valid & ~runs.none;

  always_comb begin
    if (rst_ni) begin
      assume (!valid_q[1] || facts == '1);

      Latency: assert (valid == valid_q[3]);
      SameWord: assert (!valid || (runs.slot == slot_q[3] && walk.slot == slot_q[3] && runs.code == walk.code));
      InRegion: assert (!moves || (offset + 67'(low) >= 0 && offset + 67'(high) <= limit));
      FirstByte: assert (!moves || runs.address == region_q[3].base + word.offset);
      RunsAreTheWord: assert (!moves || (runs_low >= low && runs_high <= high));
      SameStrides: assert (!moves || runs.d == word.dstride);
      CountsKept: assert (!moves || ((runs.n[0] == 16'd1 || runs.n[0] == word.n[0]) &&
          (runs.n[1] == 16'd1 || runs.n[1] == word.n[1]) && (runs.n[2] == 16'd1 || runs.n[2] == word.n[2])));
      NotEmpty: assert (!moves || (runs.run != '0 && runs.n[0] != '0 && runs.n[1] != '0 && runs.n[2] != '0));
      NothingBad: assert (!valid || runs.code == ErrorNone || (runs.none && walk.empty));
      Bound: assert (!moves || (word.base < 8'd8 && region_q[3].limit != '0));
      ReadOnly: assert (!(Store && moves) || word.base != '0);
      CoverMoves: cover (moves && runs.n[0] == 16'd3 && word.dstride[1][31] && runs.n[1] == 16'd2);
      CoverMerged: cover (moves && runs.run == 48'd96 && word.inner == 32'd32);
      CoverWholeRegion: cover (moves && offset + 67'(low) == 0 && offset + 67'(high) == limit);
      CoverRefused: cover (valid && runs.code == ErrorRegion && offset + 67'(high) == limit + 67'sd1 && offset + 67'(low) == 0);
      CoverBelow: cover (valid && runs.code == ErrorRegion && offset + 67'(low) == -67'sd1 && offset + 67'(high) <= limit);
      CoverBackToBack: cover (moves && valid_q == 4'b1111);
    end
  end

endmodule
