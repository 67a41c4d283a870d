// Proof of dpu_dma_walk: every word of work ends, a step waits unchanged until it is taken, and none is outside its cells.
// The first two for any job. Addresses for small ones (`Small`: up to 3 cells a dimension, strides to 15, cells to 40 bytes)
// whose end the checker found inside the buffer; INT4 and TABLE count otherwise and are left to simulation there.

module dpu_dma_walk_formal
  import dpu_dma_pkg::*;
#(
  parameter bit Small = 1'b0
) (
  input logic  clk_i,
  input logic  job_valid_i,
  input walk_t job_i,
  input logic  ready_i
);

  import dpu_isa_pkg::*;

  localparam int unsigned Cols = 8;
  localparam int unsigned ParamStep = 8;

  logic  rst_ni, job_ready, valid, load, take;
  walk_t job;
  step_t step, step_q;
  dpu_formal_reset u_reset (.clk_i, .rst_no(rst_ni));
  dpu_dma_walk #(.Cols(Cols), .ParamStep(ParamStep)) dut (
    .clk_i, .rst_ni, .job_valid_i, .job_ready_o(job_ready), .job_i(job), .valid_o(valid), .ready_i, .step_o(step)
  );
  assign load = job_valid_i & job_ready;
  assign take = valid & ready_i;

  always_comb begin
    job = job_i;
    if (Small) begin
      job.kind  = job_i.kind == KindFill ? KindFill : KindRaw;
      job.inner = 32'(job_i.inner[5:0]);
      for (int unsigned k = 0; k < 3; k++) begin
        job.cells[k] = 17'(job_i.cells[k][1:0]);
        job.s[k]     = 16'(job_i.s[k][3:0]);
      end
    end
  end

  // Cells and bytes to go, in the order of the loops.
  logic [82:0] rank, rank_q;
  logic        wait_q, go_q;
  logic [2:0][16:0] togo;
  for (genvar k = 0; k < 3; k++) begin : gen_togo
    assign togo[k] = dut.job_q.cells[k] - 17'd1 - dut.i_q[k];
  end
  assign rank = {togo, dut.left_q};
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) {wait_q, go_q} <= '0;
    else begin
      wait_q <= valid & ~ready_i;
      go_q   <= take & ~step.last;
    end
  end
  always_ff @(posedge clk_i) {rank_q, step_q} <= {rank, step};

  // Small jobs: words of a cell, and the end of the last one.
  logic [15:0] words, top, top_q, low_q, touched;
  always_comb begin
    case (job.buffer)
      BufferVbuf:  words = 16'((job.inner + 32'd15) >> 4);
      BufferParam: words = 16'((job.inner + 32'd3) >> 2);
      default:     words = 16'((job.inner + 32'd7) >> 3);
    endcase
    top = job.sram + words;
    for (int unsigned k = 0; k < 3; k++) top += 16'(2'(job.cells[k][1:0] - 2'd1)) * 16'(job.s[k][3:0]);
  end
  assign touched = step.buffer == BufferParam ? 16'((step.bytes + StepBytesW'(3)) >> 2) : 16'd1;
  always_ff @(posedge clk_i) if (load) {top_q, low_q} <= {top, job.sram};

  logic active;
  assign active = valid & ~step.empty;

  if (Small) begin : gen_small
    always_comb begin
      if (rst_ni) begin
        assume (!job_valid_i || job.sram < 16'd1024);
        InCells: assert (!active || (step.addr >= low_q && 17'(step.addr) + 17'(touched) <= 17'(top_q)));
        CoverEnd: cover (active && take && step.last && step.addr + touched == top_q && dut.job_q.cells[1] == 17'd2);
      end
    end
  end

  always_comb begin
    if (rst_ni) begin
      if (job_valid_i && !job.empty) begin
        assume (job.inner != '0 && job.cells[0] != '0 && job.cells[1] != '0 && job.cells[2] != '0);
      end
      // what the checker makes of a word of this kind
      if (job_valid_i && job.kind == KindTable) assume (job.inner == TableBytes + 32'd16);

      StaysUp: assert (!wait_q || (valid && step == step_q));
      Ranking: assert (!go_q || (valid && rank < rank_q));
      EmptyIsOne: assert (!(valid && step.empty) || step.last);
      NotEmpty: assert (!active || step.bytes != '0);
      // for induction
      Left: assert (!active || (dut.left_q != '0 && dut.left_q <= dut.job_q.inner));
      Cells: assert (!active || (dut.i_q[0] < dut.job_q.cells[0] && dut.i_q[1] < dut.job_q.cells[1] &&
                                 dut.i_q[2] < dut.job_q.cells[2]));
      CoverThree: cover (active && take && step.last && dut.job_q.cells == {17'd2, 17'd1, 17'd2});
      CoverWait: cover (wait_q && take && !step.last);
      CoverEmpty: cover (valid && step.empty && step.code != ErrorNone);
    end
  end

endmodule
