// Shares out the host's register bus (OCL, AXI4-Lite) between the DPU's registers and those of the custom logic.
// The DPU has the lowest 16 KiB; everything else, and that too while the DPU is in reset, is the custom logic's.
// One write and one read are open at a time; nothing is passed on before its address and data are both here.

module dpu_f2_ocl #(
  parameter int unsigned AddrW = 26,
  localparam int unsigned DpuW = $clog2(dpu_isa_pkg::RegSpaceBytes)
) (
  input  logic             clk_i,
  input  logic             rst_ni,
  input  logic             away_i,  // the DPU is in reset, or about to be
  output logic             quiet_o,  // no access of the DPU's is open

  // shell
  input  logic             awvalid_i,
  output logic             awready_o,
  input  logic [AddrW-1:0] awaddr_i,
  input  logic             wvalid_i,
  output logic             wready_o,
  input  logic [31:0]      wdata_i,
  input  logic [3:0]       wstrb_i,
  output logic             bvalid_o,
  input  logic             bready_i,
  input  logic             arvalid_i,
  output logic             arready_o,
  input  logic [AddrW-1:0] araddr_i,
  output logic             rvalid_o,
  input  logic             rready_i,
  output logic [31:0]      rdata_o,

  // [0] the DPU, [1] the custom logic
  output logic [1:0]       awvalid_o,
  input  logic [1:0]       awready_i,
  output logic [AddrW-1:0] awaddr_o,
  output logic [1:0]       wvalid_o,
  input  logic [1:0]       wready_i,
  output logic [31:0]      wdata_o,
  output logic [3:0]       wstrb_o,
  input  logic [1:0]       bvalid_i,
  output logic [1:0]       bready_o,
  output logic [1:0]       arvalid_o,
  input  logic [1:0]       arready_i,
  output logic [AddrW-1:0] araddr_o,
  input  logic [1:0]       rvalid_i,
  output logic [1:0]       rready_o,
  input  logic [1:0][31:0] rdata_i
);

  typedef enum logic [1:0] {
    Collect,  // address, data
    Send,
    Wait,
    Answer
  } state_e;

  function automatic logic is_dpu(input logic [AddrW-1:DpuW] page);
    return page == '0;
  endfunction

  // Writes.

  state_e           write_q;
  logic             aw_q, w_q, w_to_q;  // w_to_q: 1 the custom logic
  logic [AddrW-1:0] awaddr_q;
  logic [31:0]      wdata_q;
  logic [3:0]       wstrb_q;

  assign awready_o = (write_q == Collect) & ~aw_q;
  assign wready_o  = (write_q == Collect) & ~w_q;
  assign bvalid_o  = write_q == Answer;
  assign awaddr_o  = awaddr_q;
  assign wdata_o   = wdata_q;
  assign wstrb_o   = wstrb_q;

  for (genvar i = 0; i < 2; i++) begin : gen_write
    assign awvalid_o[i] = (write_q == Send) & aw_q & (w_to_q == 1'(i));
    assign wvalid_o[i]  = (write_q == Send) & w_q & (w_to_q == 1'(i));
    assign bready_o[i]  = (write_q == Wait) & (w_to_q == 1'(i));
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      write_q  <= Collect;
      aw_q     <= 1'b0;
      w_q      <= 1'b0;
      w_to_q   <= 1'b0;
      awaddr_q <= '0;
      wdata_q  <= '0;
      wstrb_q  <= '0;
    end else begin
      unique case (write_q)
        Collect: begin
          if (awvalid_i && awready_o) begin
            aw_q     <= 1'b1;
            awaddr_q <= awaddr_i;
          end
          if (wvalid_i && wready_o) begin
            w_q     <= 1'b1;
            wdata_q <= wdata_i;
            wstrb_q <= wstrb_i;
          end
          if (aw_q && w_q) begin
            write_q <= Send;
            w_to_q  <= ~is_dpu(awaddr_q[AddrW-1:DpuW]) | away_i;
          end
        end
        Send: begin
          if (awready_i[w_to_q]) aw_q <= 1'b0;
          if (wready_i[w_to_q]) w_q <= 1'b0;
          if ((awready_i[w_to_q] || !aw_q) && (wready_i[w_to_q] || !w_q)) write_q <= Wait;
        end
        Wait: if (bvalid_i[w_to_q]) write_q <= Answer;
        Answer: if (bready_i) write_q <= Collect;
        default: write_q <= Collect;
      endcase
    end
  end

  // Reads.

  state_e           read_q;
  logic             r_to_q;
  logic [AddrW-1:0] araddr_q;
  logic [31:0]      rdata_q;

  assign arready_o = read_q == Collect;
  assign rvalid_o  = read_q == Answer;
  assign rdata_o   = rdata_q;
  assign araddr_o  = araddr_q;

  for (genvar i = 0; i < 2; i++) begin : gen_read
    assign arvalid_o[i] = (read_q == Send) & (r_to_q == 1'(i));
    assign rready_o[i]  = (read_q == Wait) & (r_to_q == 1'(i));
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      read_q   <= Collect;
      r_to_q   <= 1'b0;
      araddr_q <= '0;
      rdata_q  <= '0;
    end else begin
      unique case (read_q)
        Collect: begin
          if (arvalid_i) begin
            read_q   <= Send;
            araddr_q <= araddr_i;
            r_to_q   <= ~is_dpu(araddr_i[AddrW-1:DpuW]) | away_i;
          end
        end
        Send: if (arready_i[r_to_q]) read_q <= Wait;
        Wait: begin
          if (rvalid_i[r_to_q]) begin
            read_q  <= Answer;
            rdata_q <= rdata_i[r_to_q];
          end
        end
        Answer: if (rready_i) read_q <= Collect;
        default: read_q <= Collect;
      endcase
    end
  end

  assign quiet_o = ((write_q == Collect) | w_to_q) & ((read_q == Collect) | r_to_q);

endmodule
